/// The chunks in flight: their sequence numbers, and the object's offset and CRC after each of them.
///
/// Sequence numbers count modulo 65536. A rewind adds 4096 to the next sequence number. So the number shows whether a chunk was queued
/// before the rewind and is stale (docs/ota-profile.md, "Data, and how order is kept").
package struct ChunkWindow {
    /// An offset in the object, in bytes, and the CRC-32 of the bytes before it.
    package struct Mark: Equatable {
        package var offset: Int
        package var crc: UInt32

        package init(offset: Int, crc: UInt32) {
            self.offset = offset
            self.crc = crc
        }
    }
    package enum Reading: Equatable {
        /// The device acknowledged this number of further chunks.
        case acknowledged(chunks: Int)
        /// Chunks were lost. The device expects the bytes from its position again.
        case rewound
        /// The position is older than the last acknowledged one.
        case stale
        /// The offset or CRC differs from the mark of that sequence number.
        case disagrees
    }

    private static let rewind: UInt16 = 4096

    package private(set) var acknowledged: UInt16
    package private(set) var sent: UInt16
    /// The mark at `acknowledged`, then one mark for each chunk in flight.
    private var marks: [Mark]

    /// Starts an empty window at the position in the answer to BEGIN.
    package init(at position: Position) {
        acknowledged = position.next
        sent = position.next
        marks = [Mark(offset: position.offset, crc: position.crc)]
    }

    package var inFlight: Int { Int(sent &- acknowledged) }
    package var acknowledgedMark: Mark { marks[0] }
    package var sentMark: Mark { marks[marks.count - 1] }

    /// Records one more sent chunk, which ends at `mark`.
    package mutating func book(_ mark: Mark) {
        marks.append(mark)
        sent &+= 1
    }

    /// Returns whether all chunks before `sequence` are acknowledged.
    package func isAcknowledged(upTo sequence: UInt16) -> Bool { acknowledged &- sequence < 2048 }

    /// Updates the window from a position that the device reported. A position that is stale or disagrees changes nothing.
    package mutating func read(_ position: Position) -> Reading {
        let ahead = position.next &- acknowledged
        let reported = Mark(offset: position.offset, crc: position.crc)
        if ahead <= sent &- acknowledged {
            guard marks[Int(ahead)] == reported else { return .disagrees }
            marks.removeFirst(Int(ahead))
            acknowledged = position.next
            return .acknowledged(chunks: Int(ahead))
        }
        let taken = ahead &- Self.rewind
        guard taken <= sent &- acknowledged else { return .stale }
        guard marks[Int(taken)] == reported else { return .disagrees }
        marks = [reported]
        acknowledged = position.next
        sent = position.next
        return .rewound
    }
}
