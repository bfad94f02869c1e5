/// The events of a model world in the order of their times, in milliseconds. Events of the same time keep their order.
struct EventQueue {
    private struct Entry {
        let time: Int
        let number: Int
        let run: () -> Void
    }

    private var heap: [Entry] = []
    private var number = 0

    mutating func add(at time: Int, _ run: @escaping () -> Void) {
        number += 1
        heap.append(Entry(time: time, number: number, run: run))
        var child = heap.count - 1
        while child > 0, Self.precedes(heap[child], heap[(child - 1) / 2]) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func next() -> (time: Int, run: () -> Void)? {
        guard let first = heap.first else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            var parent = 0
            while true {
                var least = parent
                for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count {
                    if Self.precedes(heap[child], heap[least]) { least = child }
                }
                if least == parent { break }
                heap.swapAt(parent, least)
                parent = least
            }
        }
        return (first.time, first.run)
    }

    private static func precedes(_ left: Entry, _ right: Entry) -> Bool {
        (left.time, left.number) < (right.time, right.number)
    }
}
