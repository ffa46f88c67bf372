"""Authentication and authorisation: sources of logins, enhanced authentication, ACL, log of decisions.

``access`` puts them together as the configuration says; the rest knows neither broker nor channel.
"""
