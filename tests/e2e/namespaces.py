"""Two network namespaces that stand for two hosts: each has a link to this namespace and one to the other. Workers started with `prefix`
also have mount and IPC namespaces of their own, with an empty /dev/shm: nothing but TCP connects them."""
import os
import subprocess


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class TwoHosts:
    def __init__(self):
        number = os.getpid() % 10000
        self.names = [f"tdm{number}a", f"tdm{number}b"]
        net = 64 + number % 128
        self.outer = [f"10.{net}.1.2", f"10.{net}.2.2"]  # as this namespace reaches them
        self.inner = [f"10.{net}.3.1", f"10.{net}.3.2"]  # as they reach each other
        gates = [f"10.{net}.1.1", f"10.{net}.2.1"]
        self.close()
        for name in self.names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for name, outer, gate in zip(self.names, self.outer, gates):
            ip("link", "add", name, "type", "veth", "peer", "name", "up0", "netns", name)
            ip("addr", "add", gate + "/24", "dev", name)
            ip("link", "set", name, "up")
            ip("-n", name, "addr", "add", outer + "/24", "dev", "up0")
            ip("-n", name, "link", "set", "up0", "up")
        ip("-n", self.names[0], "link", "add", "peer0", "type", "veth", "peer", "name", "peer0", "netns", self.names[1])
        for name, inner in zip(self.names, self.inner):
            ip("-n", name, "addr", "add", inner + "/24", "dev", "peer0")
            ip("-n", name, "link", "set", "peer0", "up")

    def prefix(self, host):
        return ["ip", "netns", "exec", self.names[host], "unshare", "-m", "-i", "--propagation", "private",
                "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]

    def options(self, host):
        return ["--rpc-host", self.outer[host], "--system-host", self.outer[host], "--side-channel-host", self.inner[host]]

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
            subprocess.run(["ip", "link", "del", name], capture_output=True)
