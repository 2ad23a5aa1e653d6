"""The dashboard: every slot on one page, its JSON twin, and the actions that repair what is seen there."""
