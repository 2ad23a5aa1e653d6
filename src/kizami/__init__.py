"""kizami (刻み, "in ticks") keeps exactly one record for every time slot of the HTTP APIs it polls."""

__version__ = "0.1.0"
