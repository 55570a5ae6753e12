"""The commands of pipelines: `tensorbus up` and `tensorbus pipeline`."""
