/// The chunks in flight, with the object's offset and CRC-32 after each chunk.
///
/// Sequence numbers count modulo 65536. A *rewind* is the device's request to send chunks again after a loss. With each rewind, the next
/// sequence number increases by 4096. So the device recognizes a chunk that the host queued before the rewind, and drops this stale
/// chunk (docs/ota-profile.md, "Data, and how order is kept").
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
    /// The meaning of a position that the device reported.
    package enum Reading: Equatable {
        /// The device has acknowledged this number of chunks since the previous position.
        case acknowledged(chunks: Int)
        /// Chunks were lost. The device has accepted this number of chunks since the previous position. It expects all bytes from the
        /// offset in its position again.
        case rewound(accepted: Int)
        /// The window does not know the position's sequence number. Usually the position is outdated: a newer position arrived earlier, on
        /// the other characteristic (Control or Progress).
        case stale
        /// The offset or the CRC-32 in the position differs from the ``Mark`` that the window has for the position's sequence number.
        case disagrees
    }

    /// The number that a rewind adds to the next sequence number.
    private static let rewind: UInt16 = 4096

    /// The sequence number after the last acknowledged chunk.
    package private(set) var acknowledged: UInt16
    /// The sequence number after the last sent chunk.
    package private(set) var sent: UInt16
    /// The mark at `acknowledged`, followed by one mark for each chunk in flight.
    private var marks: [Mark]

    /// Creates a window without chunks in flight, at the position in the answer to BEGIN.
    package init(at position: Position) {
        acknowledged = position.next
        sent = position.next
        marks = [Mark(offset: position.offset, crc: position.crc)]
    }

    /// The number of chunks in flight.
    package var inFlight: Int { Int(sent &- acknowledged) }
    package var acknowledgedMark: Mark { marks[0] }
    package var sentMark: Mark { marks[marks.count - 1] }

    /// Records that one more chunk was sent. `mark` is the offset and the CRC-32 after this chunk.
    package mutating func book(_ mark: Mark) {
        marks.append(mark)
        sent &+= 1
    }

    /// Returns whether all chunks before `sequence` are acknowledged.
    ///
    /// A window has at most 2047 chunks. So if the difference modulo 65536 is larger than 2047, `acknowledged` is before `sequence`.
    package func isAcknowledged(upTo sequence: UInt16) -> Bool { acknowledged &- sequence < 2048 }

    /// Updates the window from a position that the device reported. If the result is `stale` or `disagrees`, the window does not change.
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
        return .rewound(accepted: Int(taken))
    }
}
