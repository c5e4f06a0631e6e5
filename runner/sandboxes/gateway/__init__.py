"""The only way out of a sandbox: a proxy that forwards calls to the agent's model, meters them and refuses the rest."""
