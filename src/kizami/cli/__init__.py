"""The command line.

`kizami VERB` ─▶ main (early_signals first) ─▶ verbs/ (one module a verb) ─▶ backends (--backend local or aws)
    ─▶ local/ or aws/, behind backend/ ─▶ terminal/ (how it is shown) ─▶ exit_codes

options         what verbs share: --config, --database      ranges   --from, --to, --last
shown_zone      --tz: the zone that times are shown and read in
figure_options  --every, --sum, --mean, --min, --max, --compare
engine_options  the engine's limits                         metric_names, recipe_names  found, suggested, completed
checks/         what `kizami doctor` looks at               trial/   what `kizami try` does
backup_options  the daemon's backups                        sql/     what `kizami sql` does
page_options    who may see the dashboard: --token-env, --read-token-env, --allow-host, --frame-ancestor
"""
