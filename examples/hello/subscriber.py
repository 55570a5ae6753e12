"""Prints what publisher.py says, until it has been silent for 10 seconds."""

import tensorbus as tb

with tb.Subscriber("hello", timeout=10) as subscriber:
    for sample in subscriber:
        print(sample.header.sequence, sample.data)
