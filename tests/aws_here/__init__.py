"""AWS on this machine: moto, DynamoDB Local, a whole stack, its template, events as Lambda hands them over."""
