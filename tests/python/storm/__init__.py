"""A storm: processes are killed, stopped and impatient, and a ledger accounts for every item.

    python -m storm --kills 20000 --seed 7      in tests/python/, as scripts/deep storm does

- `records`: what each process writes down, before and after each step
- `ledger`: what the rules of docs/queues.md make of the records
- `actor`: a process, and its calls
- `roles`: the steps that victims make until they are killed
- `survivors`: the processes that outlive the victims; their memory and descriptors must not grow
- `zygote`: forks, stops, kills and reaps
- `storm`: rounds of kills; after each one the queues are emptied and the ledger must balance
- `tensors`: a storm of its own, about the memory of what is held: `python -m storm.tensors`
- `folders`: where a storm has its domain
"""
