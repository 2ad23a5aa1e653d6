"""Where the batch keeps companies' locks and users' points: the ports LockStore and PointStore of core/ports.

sqlite          both, in the one file of local/
company_table   the locks on AWS, and where each company's key is
points_table    the points on AWS
company_states  both tables read now and then, for a page over AWS
company_failures  which companies' last run failed on AWS, for alerts
"""
