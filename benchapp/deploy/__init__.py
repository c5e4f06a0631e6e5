"""One installation: its processes, broker and web workers, its checks and logs. What workers work on is in
`experiments/work`."""
