"""Where a service of AWS is in a region, in every partition, also with FIPS or IPv6 (pure).

botocore has the same in 200 KB of data and rules; the tests compare every region of it with this.
"""

from __future__ import annotations

# How a partition's regions begin, its domain, and its domain with IPv6 ("dual-stack"); the last is what most use.
PARTITIONS = (
    ("cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    ("eusc-", "amazonaws.eu", "api.amazonwebservices.eu"),
    ("us-iso-", "c2s.ic.gov", "api.aws.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov", "api.aws.scloud"),
    ("eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
    ("us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"),
    ("", "amazonaws.com", "api.aws"),
)
GOVERNMENT = "us-gov-"
FIPS_THERE_ALREADY = ("sqs", "dynamodb", "ssm")  # in the government's regions
BOTH_THERE_ALREADY = ("amazonaws.com", "amazonaws.com.cn")  # Secrets Manager's hosts have IPv6, too


def service_url(service: str, region: str, *, fips: bool = False, dual_stack: bool = False) -> str:
    """The service's endpoint as AWS names it."""
    domain, dual_domain = next(names for start, *names in PARTITIONS if region.startswith(start))
    if service == "secretsmanager" and domain in BOTH_THERE_ALREADY and not (fips and domain.endswith(".cn")):
        dual_domain = domain
    if fips and service in FIPS_THERE_ALREADY and region.startswith(GOVERNMENT) and not dual_stack:
        fips = False
    return f"https://{service}{'-fips' if fips else ''}.{region}.{dual_domain if dual_stack else domain}/"
