"""`/drafts/`: the workbench, where a family of tasks is drafted with a model, step by step."""
