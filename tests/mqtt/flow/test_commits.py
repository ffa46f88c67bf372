"""Who waits for a commit is told in order, whatever becomes of those before."""

from gossamer.mqtt.flow.commits import JournalWriter


class Journal:
    ticket = committed = 0

    def on_commit(self, callback):
        self.callback = callback

    def put(self, _key, _value):
        self.ticket += 1
        return self.ticket

    def commit(self, ticket):
        self.committed = ticket
        self.callback()


def test_those_that_wait_are_told_in_order_though_one_of_them_fails():
    journal, told = Journal(), []
    writer = JournalWriter(journal, soon=lambda callback: callback())

    def fail():
        raise RuntimeError("its connection is gone")

    writer.after(writer.write("a", 1), lambda: told.append("a"))
    writer.after(writer.write("b", 1), fail)
    writer.after(writer.write("c", 1), lambda: told.append("c"))
    writer.after(writer.write("d", 1), lambda: told.append("d"))
    journal.commit(3)
    assert told == ["a", "c"]
    journal.commit(4)
    assert told == ["a", "c", "d"]
