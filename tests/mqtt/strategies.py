"""Arbitrary valid packets of both versions, for round trips."""

from hypothesis import strategies as st

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import NONE, Properties

strings = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)
topics = strings.filter(lambda s: s and "+" not in s and "#" not in s).map(str.encode)
topic_strings = topics.map(bytes.decode)
filters = st.lists(
    st.just("+") | strings.map(lambda s: s.translate({43: None, 35: None, 47: None})), min_size=1, max_size=4
).flatmap(lambda levels: st.sampled_from(["/".join(levels) or "a", "/".join([*levels, "#"])]))
ids = st.integers(1, 65535)
u16 = st.integers(0, 65535)
u32 = st.integers(0, 2**32 - 1)
bits = st.integers(0, 1)
blobs = st.binary(max_size=40)
users = st.lists(st.tuples(strings, strings), max_size=3).map(tuple)


def properties(**fields):
    """Any subset of ``fields``; none at all is the shared NONE."""
    optional = st.fixed_dictionaries({}, optional={**fields, "user": users})
    return optional.map(lambda found: Properties(**found)).map(lambda p: NONE if p == NONE else p)


_message = {
    "payload_format": bits,
    "message_expiry": u32,
    "content_type": strings,
    "response_topic": topic_strings,
    "correlation_data": blobs,
}
_session = {
    "session_expiry": u32,
    "receive_maximum": ids,
    "topic_alias_maximum": u16,
    "maximum_packet_size": st.integers(1, 2**32 - 1),
}


def props(version, strategy):
    return strategy if version == p.V5 else st.just(NONE)


def publishes(version):
    fields = {
        **_message,
        "topic_alias": ids,
        "subscription_identifiers": st.lists(st.integers(1, 268_435_455), max_size=3).map(tuple),
    }
    return st.builds(
        lambda packet_id, **kw: p.Publish(
            packet_id=packet_id if kw["qos"] else None, dup=bool(kw.pop("dup") and kw["qos"]), **kw
        ),
        packet_id=ids,
        topic=topics,
        payload=st.binary(max_size=300),
        qos=st.integers(0, 2),
        retain=st.booleans(),
        dup=st.booleans(),
        properties=props(version, properties(**fields)),
    )


def wills(version):
    return st.builds(
        p.Will,
        topic=topics,
        payload=blobs,
        qos=st.integers(0, 2),
        retain=st.booleans(),
        properties=props(version, properties(**_message, will_delay=u32)),
    )


def connects(version):
    def build(username, password, **kw):
        if version == p.V4 and username is None:
            password = None
        return p.Connect(username=username, password=password, version=version, **kw)

    return st.builds(
        build,
        client_id=strings,
        clean_start=st.booleans(),
        keep_alive=u16,
        username=st.none() | strings,
        password=st.none() | blobs,
        will=st.none() | wills(version),
        properties=props(version, properties(**_session, request_problem_information=bits)),
    )


def acks(cls, version, reasons):
    if version == p.V4:
        return st.builds(cls, ids)
    return st.builds(cls, ids, st.sampled_from(reasons), properties(reason_string=strings))


def subscriptions(version):
    if version == p.V4:
        return st.builds(p.Subscription, filters, st.integers(0, 2))
    return st.builds(
        lambda f, q, nl, rap, rh: p.Subscription(f, q, nl and not f.startswith("$share/"), rap, rh),
        filters,
        st.integers(0, 2),
        st.booleans(),
        st.booleans(),
        st.integers(0, 2),
    )


def packets(version):
    reason = properties(reason_string=strings)
    many = [
        connects(version),
        publishes(version),
        acks(p.Puback, version, [0, 0x10, 0x80, 0x97]),
        acks(p.Pubrec, version, [0, 0x10, 0x99]),
        acks(p.Pubrel, version, [0, 0x92]),
        acks(p.Pubcomp, version, [0, 0x92]),
        st.builds(
            p.Subscribe,
            packet_id=ids,
            subscriptions=st.lists(subscriptions(version), min_size=1, max_size=4).map(tuple),
            properties=props(
                version, properties(subscription_identifiers=st.tuples(st.integers(1, 268_435_455)))
            ),
        ),
        st.builds(
            p.Suback,
            packet_id=ids,
            reasons=st.lists(st.sampled_from([0, 1, 2, 0x80]), min_size=1, max_size=4).map(tuple),
            properties=props(version, reason),
        ),
        st.builds(
            p.Unsubscribe,
            packet_id=ids,
            filters=st.lists(filters, min_size=1, max_size=4).map(tuple),
            properties=props(version, properties()),
        ),
        st.builds(
            p.Unsuback,
            packet_id=ids,
            reasons=st.just(())
            if version == p.V4
            else st.lists(st.sampled_from([0, 0x11, 0x80]), min_size=1, max_size=4).map(tuple),
            properties=props(version, reason),
        ),
        st.builds(p.Pingreq),
        st.builds(p.Pingresp),
        st.just(p.Disconnect())
        if version == p.V4
        else st.builds(p.Disconnect, reason=st.sampled_from([0, 4, 0x81, 0x8E]), properties=reason),
        st.builds(
            p.Connack,
            reason=st.sampled_from([0, 1, 5] if version == p.V4 else [0, 0x85, 0x87]),
            properties=props(version, properties(**_session, assigned_client_id=strings, maximum_qos=bits)),
        ),
    ]
    if version == p.V5:
        many.append(st.builds(p.Auth, reason=st.sampled_from([0, 0x18, 0x19]), properties=reason))
    return st.one_of(many)
