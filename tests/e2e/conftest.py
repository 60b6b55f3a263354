import pathlib
import shutil
import tempfile

import pytest

import harness


@pytest.fixture(scope="session", autouse=True)
def files_are_there():
    """Missing inputs fail the run with the remedy; nothing is skipped."""
    assert harness.TANDEM.exists(), f"{harness.TANDEM} is missing: run scripts/build"
    assert harness.TINY.exists(), f"{harness.TINY} is missing: run tests/tools/prepare_test_data.py"
    assert harness.DEMO.exists(), f"{harness.DEMO} is missing: run scripts/fetch-demo-model"


def private_folder():
    # Short: Unix socket paths below it have to fit in 108 bytes.
    return pathlib.Path(tempfile.mkdtemp(prefix="tandem-e2e-", dir="/tmp"))


@pytest.fixture
def folder():
    path = private_folder()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def start(folder, request):
    """start(Serve, MODEL, ...) or start(Cluster, MODEL, ...): ended with the test, its output shown if that failed."""
    services = []

    def begin(kind, *arguments, **options):
        service = kind(folder, *arguments, **options)
        services.append(service)
        return service

    yield begin
    for service in services:
        service.end()
        for process in service.processes:
            print(f"--- tandem {' '.join(process.arguments)}\n{process.output()}")


@pytest.fixture(scope="module")
def shared_start():
    """The same for services that the tests of a module share."""
    services, folders = [], []

    def begin(kind, *arguments, **options):
        folders.append(private_folder())
        service = kind(folders[-1], *arguments, **options)
        services.append(service)
        return service

    yield begin
    for service in services:
        service.end()
        for process in service.processes:
            print(f"--- tandem {' '.join(process.arguments)}\n{process.output()}")
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
