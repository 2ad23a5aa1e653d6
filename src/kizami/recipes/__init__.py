"""Ready-made targets for services and servers that many people have, one TOML file each.

    NAME.toml ─▶ catalogue (by name, its head read) ─▶ `kizami recipes`, `kizami init --recipe`

A file opens with a comment: the title, what is counted, what is to be filled in, the page that documents the API.
Then comes one [[targets]] table. tests/recipes/answers has what each API is documented to be asked and to answer.
"""
