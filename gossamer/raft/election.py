"""Elections: when a follower campaigns, whom it votes for, and when a vote is won.

Rules: 1. A trial (PreVote) comes before a term is begun, so a replica that nobody hears raises no term.
2. Who has a leader votes for nobody else until that leader has been silent for ``election_ticks``; a leader
that hands over says so (``transfer``).  3. A replica votes for logs that are at least as complete as its own,
once a term, and its disc has the vote before the candidate has.  4. One that has just restarted waits before
it votes; see ``State.guarded``.
"""

from __future__ import annotations

from gossamer.raft.leader import become_leader
from gossamer.raft.messages import VoteReply, VoteRequest
from gossamer.raft.quorum import Vote
from gossamer.raft.state import Role, State, become_follower


def tick(state: State) -> None:
    """Let one tick pass without a leader's word."""
    state.elapsed += 1
    if state.elapsed >= state.timeout and state.may_campaign:
        campaign(state, trial=True)


def campaign(state: State, *, trial: bool, transfer: bool = False) -> None:
    """Ask for votes for the next term, on trial or in earnest."""
    state.reset(state.term if trial else state.term + 1)
    state.role = Role.TRIAL if trial else Role.CANDIDATE
    term = state.term + trial
    if not trial:
        state.vote = state.id
        state.elections += 1
    if state.membership.votes(state.id):
        state.votes[state.id] = True
    log, membership = state.log, state.membership
    for voter in membership.members:
        if voter != state.id and membership.votes(voter):
            request = VoteRequest(voter, state.id, term, log.last, log.last_term, trial, transfer)
            state.promises.append(request)
    _count(state)


def on_vote_request(state: State, message: VoteRequest) -> None:
    """Grant or refuse a vote; a request of a later term has ended the present one, unless it is a trial."""
    free = state.vote in (0, message.sender) and (not state.leader or message.transfer)
    if message.trial:
        free = message.term > state.term
    granted = free and may_vote(state, message) and state.log.at_least(message.last_index, message.last_term)
    if granted and not message.trial:
        state.vote = message.sender
        state.elapsed = 0
    # A trial that is granted is answered in the term that would begin, which this replica has not.
    term = message.term if granted else state.term
    state.promises.append(VoteReply(message.sender, state.id, term, granted, message.trial))


def may_vote(state: State, message: VoteRequest) -> bool:
    """Return whether this replica has been up for long enough to know that its disc lost nothing."""
    return not state.guarded or message.transfer


def on_vote_reply(state: State, message: VoteReply) -> None:
    """Count a vote."""
    trial = state.role is Role.TRIAL
    if message.trial == trial and message.term == state.term + (trial and message.granted):
        state.votes.setdefault(message.sender, message.granted)
        _count(state)


def _count(state: State) -> None:
    outcome = state.membership.outcome(state.votes)
    if outcome is Vote.LOST:
        become_follower(state, state.term, 0)
    elif outcome is Vote.WON and state.role is Role.TRIAL:
        campaign(state, trial=False)
    elif outcome is Vote.WON:
        become_leader(state)
