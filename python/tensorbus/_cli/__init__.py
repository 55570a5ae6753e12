"""The programs `tensorbus` and `tensorbus-config`."""
