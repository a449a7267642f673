#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
Runs modules of rdma-core's Python tests on one device and tells the result of
each test. What the results mean is the business of "run", on the host.

usage: inside.py DEVICE BUILD TESTS MODULE[,BACKING]...
       inside.py files BUILD TESTS MODULE...

BUILD is a build of rdma-core in place, TESTS its directory of tests. With
BACKING, buffers are made of that (IBV_BUF_BACKING). "files" prints the files
that the modules import, which is what a guest must have to run them.

A result is a line "@", the test, "passed", "failed" or "skipped", and the
reason, with tabs between. The last line is "@all".
"""
import faulthandler
import importlib
import os
import random
import sys
import traceback
import types
import unittest

NO_ANSWER = 'Got timeout on polling'


def load(build, tests, names):
    """
    Imports test modules without the others of their package, some of which
    want hardware or packages that are not there.
    """
    sys.path[:0] = [os.path.join(build, 'python'), tests]
    package = types.ModuleType('tests')
    package.__path__ = [tests]
    sys.modules['tests'] = package
    return [importlib.import_module('tests.' + name) for name in names]


class Result(unittest.TestResult):
    def __init__(self, device, suffix):
        super().__init__()
        self.device = device
        self.suffix = suffix

    def startTest(self, test):
        super().startTest(test)
        self.status, self.reason = 'passed', ''
        # The same for every build
        random.seed(test.id())

    def fail(self, err):
        # The test device sends nothing, so whoever waits for an answer, or for
        # the error of a completion, waits for ever.
        text = ''.join(traceback.format_exception(*err))
        reason = str(err[1]).splitlines() or [err[0].__name__]
        if self.device.startswith('sim') and NO_ANSWER in text:
            self.status = 'skipped'
            self.reason = 'the test device carries no traffic'
        else:
            self.status, self.reason = 'failed', reason[0]
            for line in text.splitlines():
                print('#', line)

    def addError(self, test, err):
        self.fail(err)

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err:
            print('#', subtest)
            self.fail(err)

    def addSkip(self, test, reason):
        self.status, self.reason = 'skipped', reason.splitlines()[0]

    def stopTest(self, test):
        super().stopTest(test)
        name = test.id().removeprefix('tests.') + self.suffix
        print('@', name, self.status, self.reason, sep='\t', flush=True)


def run(device, module, backing):
    if backing:
        os.environ['IBV_BUF_BACKING'] = backing
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    suite.run(Result(device, backing and f' ({backing})'))


def main():
    faulthandler.enable()
    device, build, tests, *words = sys.argv[1:]
    names = [word.partition(',') for word in words]
    modules = load(build, tests, [name for name, _, _ in names])
    if device == 'files':
        for module in list(sys.modules.values()):
            if getattr(module, '__file__', None):
                print(os.path.abspath(module.__file__))
        # Imports more of itself when it is needed
        print(os.path.dirname(unittest.__file__))
        return

    sys.argv[1:] = ['--dev', device]
    importlib.import_module('args_parser').parser.parse_args()
    # A guest is emulated, and many tests register an MR for each combination of
    # access flags.
    utils = sys.modules['tests.utils']
    utils.MAX_MR_SIZE = 1 << 16
    if device.startswith('sim'):
        utils.POLL_CQ_TIMEOUT = 0.5

    # Each module in a process of its own: what it leaves behind, or its death,
    # is nothing to the others.
    for module, (name, _, backing) in zip(modules, names):
        child = os.fork()
        if child == 0:
            run(device, module, backing)
            sys.stdout.flush()
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            print('@', name, 'failed', f'ended early, with {status}',
                  sep='\t', flush=True)
    print('@all', flush=True)


main()
