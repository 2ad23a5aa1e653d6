"""The command line.

`kizami VERB` ─▶ main (early_signals first) ─▶ verbs/ (one module a verb) ─▶ homes (--backend local or aws)
    ─▶ local_backend ─▶ local/, or aws_places (where a stack has its parts) ─▶ aws_backend ─▶ aws/
    ─▶ terminal/ (how it is shown) ─▶ exit_codes

options         what verbs share: --config, --database      ranges   --from, --to, --last
engine_options  the engine's limits                         metric_names  found, suggested, completed
overview        the numbers of `kizami status`              checks/  what `kizami doctor` looks at
aws_dashboard   the home behind `kizami dashboard --backend aws`
"""
