"""Bring finished runs of other tools into the record: `formats` lists the readers, `finding` asks them,
`batch` runs an import."""
