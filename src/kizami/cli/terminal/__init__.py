"""How verbs show things: printing, drawings, files, the live view of `kizami up`."""
