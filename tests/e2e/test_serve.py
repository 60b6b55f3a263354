"""`tandem serve` as a whole: starting, stopping, dying."""
import concurrent.futures
import os
import signal
import socket
import time

from harness import DEMO, TINY, Process, Serve, eventually


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_says_what_it_does_and_stops_cleanly(start, folder):
    service = start(Serve, TINY, "--prefill", "1", "--decode", "1", "--served-model-name", "tiny", "small")
    assert service.model == "tiny" and "1 prefill + 1 decode workers" in service.process.output()
    assert "loading the model" in service.process.output() and "curl http://127.0.0.1:" in service.process.output()
    children = service.children()
    assert sorted(children) == ["decode-1", "frontend-1", "prefill-1"]
    assert service.post("/v1/completions", {"model": "small", "prompt": "x", "max_tokens": 1}).status_code == 200
    started = time.monotonic()
    assert service.process.stop() == 0
    assert time.monotonic() - started < 5
    assert not any(alive(pid) for pid in children.values())
    assert not [n for n in os.listdir(folder / "tandem") if n.startswith("serve-")]


def test_its_url_comes_when_every_worker_is_known(start):
    for _ in range(3):
        service = start(Serve, TINY, "--prefill", "2", "--decode", "2")
        assert len(service.get("/health").json()["instances"]) == 4
        assert service.process.stop() == 0


def test_ctrl_c_is_the_same_as_sigterm(start):
    service = start(Serve, TINY)
    os.kill(service.process.pid, signal.SIGINT)
    assert service.process.child.wait(10) == 0


def test_requests_under_way_may_end(start):
    service = start(Serve, DEMO)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(service.ids, "A short story:", 40, ignore_eos=True)
        time.sleep(0.2)
        service.process.child.terminate()
        assert len(answer.result(20)) == 40
    assert service.process.child.wait(10) == 0


def test_children_die_with_a_killed_supervisor(start, folder):
    service = start(Serve, TINY, "--prefill", "1", "--decode", "1")
    children = service.children()
    service.process.kill()
    eventually(lambda: not any(alive(pid) for pid in children.values()))
    # The next one clears away what the killed one left.
    left = [n for n in os.listdir(folder / "tandem") if n.startswith("serve-")]
    assert left
    start(Serve, TINY)
    assert not set(left) & set(os.listdir(folder / "tandem"))


def test_a_taken_port_is_explained(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        process = Process(["serve", str(TINY), "--http-port", port], folder)
        assert process.child.wait(20) == 1
        process.reader.join(5)
        assert port in process.output() and "choose another" in process.output(), process.output()
        process.end()


def test_binds_only_to_this_machine(start):
    service = start(Serve, TINY)
    pids = {service.process.pid, *service.children().values()}
    sockets = set()
    for pid in pids:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    listening = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as file:
            for line in list(file)[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in sockets:
                    listening.append(fields[1].split(":")[0])
    assert listening and set(listening) == {"0100007F"}, listening


def test_two_serves_do_not_see_each_other(start):
    one = start(Serve, TINY, "--served-model-name", "one")
    two = start(Serve, TINY, "--served-model-name", "two")
    assert (one.model, two.model) == ("one", "two")
    assert one.post("/v1/completions", {"model": "two", "prompt": "x", "max_tokens": 1}).status_code == 404


def test_mock_engine_through_the_real_planes(start):
    service = start(Serve, "--engine", "mock", "--served-model-name", "mock", "--prefill", "1", "--decode", "1", "--router-mode", "random",
                    "--mock-step-us", "100", "--mock-decode-token-us", "100")
    assert service.model == "mock"
    reply = service.post("/v1/completions", {"model": "mock", "prompt": [5] * 100, "max_tokens": 8, "ignore_eos": True})
    assert reply.status_code == 200 and reply.json()["usage"]["completion_tokens"] == 8, reply.text
