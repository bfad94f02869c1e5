import BlueZ
import Testing

@Suite("Order of the waiting connection attempts") struct TurnQueueTests {
    private func drained(_ queue: TurnQueue<String>) -> [String] {
        var queue = queue
        var values: [String] = []
        while let next = queue.removeFirst() { values.append(next.value) }
        return values
    }

    @Test("an urgent attempt connects before the attempts that are not urgent, each in the order of arrival")
    func urgent() {
        var queue = TurnQueue<String>()
        for (ticket, name) in ["a", "B", "c", "D"].enumerated() {
            queue.add(name, ticket: ticket, isUrgent: name.first?.isUppercase == true)
        }
        #expect(drained(queue) == ["B", "D", "a", "c"])
        let removed = [queue.remove(ticket: 3), queue.remove(ticket: 3), queue.remove(ticket: 9)]
        #expect(removed == ["D", nil, nil])
        #expect(drained(queue) == ["B", "a", "c"])
    }

    @Test("attempts that are not urgent connect in the order of arrival")
    func inOrder() {
        var queue = TurnQueue<String>()
        for ticket in 0..<4 { queue.add("\(ticket)", ticket: ticket, isUrgent: false) }
        #expect(drained(queue) == ["0", "1", "2", "3"])
    }
}
