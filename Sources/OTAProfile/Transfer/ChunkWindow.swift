/// The chunks in flight: which sequence numbers are under way, and how far the object reaches behind each of them.
///
/// Sequence numbers are reckoned modulo 65536; a rewind jumps ahead by 4096, so that what was queued before it is stale
/// by its number alone (docs/ota-profile.md, "Data, and how order is kept").
package struct ChunkWindow {
    /// A place in the object: so many bytes, and the CRC-32 of them.
    package struct Mark: Equatable {
        package var offset: Int
        package var crc: UInt32

        package init(offset: Int, crc: UInt32) {
            self.offset = offset
            self.crc = crc
        }
    }
    package enum Reading: Equatable {
        /// So many chunks more are taken.
        case acknowledged(chunks: Int)
        /// Something got lost: the device goes on from the mark.
        case rewound
        /// Older than what is known.
        case stale
        /// Its offset or CRC is not what stands behind its sequence number.
        case disagrees
    }

    private static let rewind: UInt16 = 4096

    package private(set) var acknowledged: UInt16
    package private(set) var sent: UInt16
    /// The mark behind `acknowledged`, and after it one for each chunk in flight.
    private var marks: [Mark]

    /// As BEGIN's answer sets it.
    package init(at position: Position) {
        acknowledged = position.next
        sent = position.next
        marks = [Mark(offset: position.offset, crc: position.crc)]
    }

    package var inFlight: Int { Int(sent &- acknowledged) }
    package var acknowledgedMark: Mark { marks[0] }
    package var sentMark: Mark { marks[marks.count - 1] }

    /// Books one more chunk, after which the object reaches to `mark`.
    package mutating func book(_ mark: Mark) {
        marks.append(mark)
        sent &+= 1
    }

    /// Whether everything before `sequence` is acknowledged.
    package func isAcknowledged(upTo sequence: UInt16) -> Bool { acknowledged &- sequence < 2048 }

    /// Takes what a position tells. A position that is stale or disagrees changes nothing.
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
