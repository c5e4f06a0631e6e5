"""The only way out of a sandbox: a proxy that lets calls to the agent's model through, meters them and refuses the
rest."""
