/// The messages to another peer that it has not acknowledged. The goodbye is one of them, so that it arrives once and in order, too.
///
/// One message is on its way at a time. The next one starts when the receiver has acknowledged the previous one.
struct Outbox: Sendable {
    /// The maximum number of bytes that wait.
    static let limit = 1 << 20

    private enum Item {
        case text(number: UInt32, [UInt8])
        case goodbye

        var count: Int { if case .text(_, let bytes) = self { bytes.count } else { 1 } }
    }

    private var items: [Item] = []
    /// The number of the first item on the link. The user sees another number, which does not count the goodbyes.
    private var firstSequence: UInt32 = 1
    /// The number of texts until now.
    private(set) var texts: UInt32 = 0
    /// Whether frames of the first item may be on their way, or may have arrived.
    private var isFirstSent = false

    var isEmpty: Bool { items.isEmpty }
    /// The number of bytes that are not acknowledged.
    private(set) var count = 0
    /// The number of texts that are not acknowledged.
    private(set) var undelivered = 0
    /// Whether the last item is a goodbye.
    var endsWithGoodbye: Bool { if case .goodbye = items.last { true } else { false } }

    mutating func add(_ bytes: [UInt8]) {
        texts += 1
        items.append(.text(number: texts, bytes))
        (count, undelivered) = (count + bytes.count, undelivered + 1)
    }

    mutating func addGoodbye() {
        if endsWithGoodbye { return }
        items.append(.goodbye)
        count += 1
    }

    /// Returns the goodbye if it is the last item. It may be sent before the texts that wait, and before the position of the other peer.
    mutating func earlyGoodbye() -> Frame? {
        guard endsWithGoodbye else { return nil }
        // The other peer may receive the goodbye. Without this, a text could get its number, and a receipt for the goodbye.
        if items.count == 1 { isFirstSent = true }
        return .goodbye(firstSequence + UInt32(items.count - 1))
    }

    /// Removes the goodbye if the other peer cannot have received it.
    mutating func removeGoodbye() {
        if endsWithGoodbye, items.count > 1 || !isFirstSent { count -= items.removeLast().count }
    }

    /// Removes the items before a position. Returns the numbers of the texts among them, and whether a goodbye is among them.
    ///
    /// - Parameter limit: the maximum number of items that can have arrived.
    mutating func acknowledge(_ position: Position, atMost limit: Int) throws(ChatError) -> (
        texts: [UInt32], goodbye: Bool
    ) {
        guard position.sequence >= firstSequence else { throw .wrongPosition }
        let count = Int(position.sequence - firstSequence)
        guard count <= min(limit, items.count),
            Int(position.offset) < (count < items.count ? items[count].count : 1)
        else { throw .wrongPosition }
        let numbers = items.prefix(count).compactMap { item -> UInt32? in
            if case .text(let number, _) = item { number } else { nil }
        }
        self.count -= items.prefix(count).reduce(0) { $0 + $1.count }
        undelivered -= numbers.count
        items.removeFirst(count)
        firstSequence = position.sequence
        if count > 0 { isFirstSent = false }
        return (numbers, numbers.count < count)
    }

    /// Returns whether a position is in the first item. A receiver reports such positions during a long text.
    func isInFirst(_ position: Position) -> Bool {
        position.sequence == firstSequence && Int(position.offset) < (items.first?.count ?? 1)
    }

    /// Whether a position acknowledges nothing that is in this outbox.
    func isOld(_ position: Position) -> Bool { position.sequence < firstSequence }

    /// Returns the frames of the first item from this offset.
    mutating func frames(from offset: Int, frameLength: Int) -> [Frame] {
        guard let item = items.first else { return [] }
        isFirstSent = true
        guard case .text(_, let bytes) = item else { return [.goodbye(firstSequence)] }
        let step = frameLength - Frame.textHeader
        return stride(from: offset, to: bytes.count, by: step).map { start in
            let end = min(start + step, bytes.count)
            return .text(Position(firstSequence, UInt16(start)), Array(bytes[start..<end]), isLast: end == bytes.count)
        }
    }
}
