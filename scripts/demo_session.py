"""The second half of scripts/demo: starts `tandem serve`, asks one question, shows what the two workers did."""
import argparse
import collections
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

QUESTION = ("I am visiting Paris for the first time. What is the Eiffel Tower, who built it, and why is it famous? "
            "Answer in three sentences.")
MAX_TOKENS = 160
PORT = 8000
START_LIMIT = 300  # seconds; a slow disk reads the model in much less


def fail(reason, remedy):
    print(f"error: {reason}\nremedy: {remedy}", file=sys.stderr)
    sys.exit(1)


def free_port():
    """The usual port if nobody has it, else any. Also sees whether this machine can talk to itself at all."""
    port = PORT
    with socket.socket() as listener, socket.socket() as client:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            print(f"    port {port} is taken: another one is used", file=sys.stderr)
            port = 0
            listener.bind(("127.0.0.1", port))
        listener.listen()
        try:
            client.connect(listener.getsockname())
        except OSError as error:
            fail(f"127.0.0.1 cannot be reached from this machine itself ({error.strerror})", "bring its loopback up: ip link set lo up")
    return port


class Server:
    def __init__(self, binary, model):
        self.child = subprocess.Popen([binary, "serve", model, "--prefill", "1", "--decode", "1", "--http-port", str(free_port()),
                                       "--served-model-name", "demo"],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.workers = {}
        self.log = collections.deque(maxlen=200)
        threading.Thread(target=self.read_log, daemon=True).start()
        self.url = self.wait_url()

    def read_log(self):
        """Shows progress and warnings, remembers where each worker's own server is."""
        for line in self.child.stderr:
            self.log.append(line)
            match = re.search(r"(\S+): tandem \S+ worker \w+ serves .* system server on (\S+)", line)
            if match:
                self.workers[match.group(1)] = match.group(2)
            if "loading the model" in line or " WARN " in line or "ERROR" in line:
                print("    " + line.rstrip(), file=sys.stderr)

    def wait_url(self):
        """Where it serves. Reads on in the background, so that the server never waits for a reader."""
        limit = threading.Timer(START_LIMIT, self.child.terminate)
        limit.start()
        for line in self.child.stdout:
            match = re.match(r"serving .* at (http://\S+)", line)
            if match:
                limit.cancel()
                threading.Thread(target=self.child.stdout.read, daemon=True).start()
                return match.group(1)
        limit.cancel()
        self.child.wait()
        fail("the server did not start:\n" + "".join(list(self.log)[-15:]), "see the lines above; scripts/test --only unit,e2e tells more")

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait()


def get(url):
    with urllib.request.urlopen(url, timeout=10) as reply:
        return reply.read().decode()


def ask(url, question):
    """Streams the answer to the terminal. Returns (time to first token, time between the first and last, tokens, prompt tokens)."""
    body = {"model": "demo", "messages": [{"role": "user", "content": question}], "max_tokens": MAX_TOKENS, "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True}}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    started, first, last, usage = time.monotonic(), None, None, {}
    with urllib.request.urlopen(request, timeout=120) as reply:
        for line in reply:
            data = line.decode().strip().removeprefix("data: ")
            if not line.startswith(b"data: ") or data == "[DONE]":
                continue
            event = json.loads(data)
            if "error" in event:
                fail(event["error"]["message"], "see the server's lines above")
            usage = event.get("usage") or usage
            text = event["choices"][0]["delta"].get("content") if event["choices"] else None
            if text:
                last = time.monotonic()
                first = first or last
                print(text, end="", flush=True)
    print()
    if first is None:
        fail("the answer was empty", "ask something else: scripts/demo 'your question'")
    return first - started, last - first, usage["completion_tokens"], usage["prompt_tokens"]


def numbers(tree, out=None):
    out = {} if out is None else out
    for key, value in tree.items():
        if isinstance(value, dict):
            numbers(value, out)
        else:
            out[key] = value
    return out


def series(text, name):
    """[(labels, value)] of a metric, by a part of its name."""
    found = re.findall(r"^(\w*" + name + r")\{([^}]*)\} (\S+)$", text, re.M)
    return [(dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)) for _, labels, value in found]


def transfer(addresses):
    """Bytes, seconds and transport of all pulls of these workers."""
    moved, seconds = {}, 0.0
    for address in addresses:
        text = get(f"http://{address}/metrics")
        for labels, value in series(text, "kv_transfer_bytes_total"):
            moved[labels["transport"]] = moved.get(labels["transport"], 0) + value
        seconds += sum(value for _, value in series(text, "kv_transfer_seconds_sum"))
    transports = [name for name, value in moved.items() if value > 0]
    return int(sum(moved.values())), seconds, "+".join(transports) or "none"


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo")
    parser.add_argument("binary", help=argparse.SUPPRESS)
    parser.add_argument("model", help=argparse.SUPPRESS)
    parser.add_argument("question", nargs="?", default=QUESTION)
    parser.add_argument("--keep", action="store_true", help="leave it serving and print a curl line")
    options = parser.parse_args()
    server = Server(options.binary, options.model)
    try:
        print(f"\nQuestion: {options.question}\n\nAnswer: ", end="", flush=True)
        first, rest, tokens, prompt = ask(server.url, options.question)
        states = {name: numbers(json.loads(get(f"http://{address}/debug/state"))) for name, address in sorted(server.workers.items())}
        moved, seconds, transport = transfer(server.workers.values())
        print(f"\n  time to first token: {first * 1000:.0f} ms")
        print(f"  tokens/s: {(tokens - 1) / rest if rest > 0 else 0:.1f} ({tokens} tokens)")
        print(f"  prompt tokens: {prompt}")
        print(f"  KV bytes moved: {moved}")
        print(f"  KV speed: {moved / seconds / 1e9 if seconds > 0 else 0:.2f} GB/s over {transport}")
        for name, state in states.items():
            print(f"  {name}: computed {state['prompt_tokens_computed']} prompt tokens, generated {state['generated_tokens']} tokens, pulled {state['pulled_bytes']} bytes")
        if moved == 0:
            fail("no KV was moved between the workers", "see the server's lines above")
        if options.keep:
            keep(server)
    except OSError as error:
        fail(f"the server could not be asked: {error}\n" + "".join(list(server.log)[-15:]), "see the server's lines above")
    except KeyboardInterrupt:
        print()
        sys.exit(130)
    finally:
        server.stop()


def keep(server):
    body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Hello"}]})
    print(f"\nIt goes on serving; Ctrl-C, or kill {os.getpid()}, ends it. Try:\n"
          f"  curl {server.url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'", flush=True)
    try:
        code = server.child.wait()
    except KeyboardInterrupt:
        print()
        return
    fail(f"the server ended with code {code}:\n" + "".join(list(server.log)[-15:]), "see its lines above")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    main()
