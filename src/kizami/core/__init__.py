"""What is decided, without doing anything: no I/O, no clock, no environment, no chance; `now` is a parameter.

    the text of kizami.toml ─▶ config ─▶ targets/: what is polled; requests/: how; access/: how it is reached;
                                         answers/: what is believed
    a minute and its targets ─▶ sender ─▶ messages, each with its delay
    a message ─▶ collector ─▶ a request; its answer ─▶ collector ─▶ a record (messages) or a named error
    a failure that does not heal by waiting ─▶ blocking ─▶ whether the target is asked at all, and its slots kept
    what was due less what is stored ─▶ coverage ─▶ gaps ─▶ backfill ─▶ messages again
                                                     └─▶ reconcile: which of them in this run, on AWS

On AWS targets are asked together and stored together:

    bundles       which targets, and which bundle holds a slot
    ticks         the answers of a bundle to one slot time, packed
    tick_columns  ticks read in bulk: states by bits, values of a metric as columns; slot_states: in runs
    holding       targets that are slow or held: which lane asks them, and when they are probed
    recovery      how far a bundle's ticks were looked at, and what they lack; rounds: what is asked for again
    past_slots    slots that an operator asks for again, gathered into messages about many of them
    retries       when a slot that failed is tried again, and when it is given up
    sealed_spans  the slots of a metric over an hour, packed, as on one machine; packing: numbers in few bytes
    sealing       which span is sealed next; merging: its ticks as columns, joined with what is sealed
    summaries     what members of a bundle lack in a span, and how late its ticks were
    costs         what a month of that comes to; cost_figures: prices and figures, each with its source

What all of it stands on:

    slots      the axis of time: slots, windows, how an instant is written
    epoch      instants as the whole numbers that the SQLite file holds
    errors     everything that can go wrong, as one tree
    redaction  secrets kept out of every text
    ports      what a runtime has to provide, and what that promises
    logs       how a log line looks
"""
