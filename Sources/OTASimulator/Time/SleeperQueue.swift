/// The sleeping tasks of a `VirtualTime`, ordered by wake-up time. Tasks with the same wake-up time wake in the order of their calls.
///
/// The queue is a binary heap of instants and a dictionary of continuations. A cancelled task leaves the dictionary at once and the heap
/// later: the heap is rebuilt when it has over 64 more cancelled entries than others. So cancelled entries cannot accumulate.
struct SleeperQueue {
    typealias Sleeper = CheckedContinuation<Void, any Error>
    typealias Ticket = UInt64

    private struct Entry {
        let instant: VirtualTime.Instant
        let ticket: Ticket

        static func < (left: Entry, right: Entry) -> Bool {
            left.instant < right.instant || (left.instant == right.instant && left.ticket < right.ticket)
        }
    }

    private var heap: [Entry] = []
    private var sleepers: [Ticket: Sleeper] = [:]

    /// The number of heap entries, including those of cancelled tasks.
    var places: Int { heap.count }

    mutating func insert(_ sleeper: Sleeper, until instant: VirtualTime.Instant, ticket: Ticket) {
        sleepers[ticket] = sleeper
        heap.append(Entry(instant: instant, ticket: ticket))
        siftUp(from: heap.count - 1)
    }

    /// Removes and returns the sleeper with this ticket; nil if it is no longer in the queue.
    mutating func remove(_ ticket: Ticket) -> Sleeper? {
        guard let sleeper = sleepers.removeValue(forKey: ticket) else { return nil }
        if heap.count > 2 * sleepers.count + 64 {
            heap.removeAll { sleepers[$0.ticket] == nil }
            for index in stride(from: heap.count / 2 - 1, through: 0, by: -1) { siftDown(from: index) }
        }
        return sleeper
    }

    mutating func popEarliest() -> (instant: VirtualTime.Instant, sleeper: Sleeper)? {
        while let first = heap.first {
            heap.swapAt(0, heap.count - 1)
            heap.removeLast()
            siftDown(from: 0)
            if let sleeper = sleepers.removeValue(forKey: first.ticket) { return (first.instant, sleeper) }
        }
        return nil
    }

    private mutating func siftUp(from start: Int) {
        var child = start
        while child > 0, heap[child] < heap[(child - 1) / 2] {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    private mutating func siftDown(from start: Int) {
        var parent = start
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && heap[child] < heap[least] {
                least = child
            }
            if least == parent { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
