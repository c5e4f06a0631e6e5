"""The only way out of a sandbox: a proxy that meters calls and refuses the rest."""
