"""AWS on this machine, from a single call to a whole stack.

local_aws      moto's SQS and DynamoDB, Amazon's DynamoDB Local, tables and queues in them
ministack      a local AWS that deploys the real template and runs its functions (ministack_program: its process)
read_queue     a queue as whoever works it off sees it
bundled        many targets in bundles, as functions see it
memory_aws     SQS and DynamoDB in memory, for very many targets; healing: a minute that these missed,
               closed_hours: records of theirs that are to go
interleaving   several runs of functions on it at once, one call after the other in any order, with crashes
collecting_here  deliveries of configured targets on it, carried out one by one
recovering_here  runs of the reconciler over ticks on it, on a clock that a test steps
fleet          a thousand targets on it, polled for a month, as readers find them
stack_here     ticks or rows on it with their queues, as verbs and the page find them; row_stack: rows alone
deployed       a deployment with data in it, as verbs and the page find it
template       that template as tests read it
synthesizer    the process that makes the templates of a run
lambda_events  what Lambda hands to a handler, and its log lines read back
"""
