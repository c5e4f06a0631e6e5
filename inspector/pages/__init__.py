"""The pages, one folder per part of the address. `<page>_view` answers the request; `<page>` next to it says what is
shown."""
