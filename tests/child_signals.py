"""Signals for the programs under test. What a shell starts in the background, or nohup, ignores SIGINT or SIGHUP, and so
does all that it starts in turn, hw4 among it: tests that interrupt it would wait for nothing."""
import signal


def heed():
    """Programs started from here on end by such signals, while this process goes on ignoring what it ignored: a handler,
    unlike SIG_IGN, is not handed on."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
