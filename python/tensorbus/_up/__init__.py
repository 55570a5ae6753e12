"""`tensorbus up`: starts the processes of a pipeline, and keeps them alive (docs/tasks/up.md)."""
