import COTADevice

/// The part of the test host that sends encoded images.
extension Bench {
    static func encodedArguments(from: UInt32, base: [UInt8]) -> [UInt8] {
        let prefix = base.isEmpty ? [UInt8](repeating: 0, count: 8) : Array(Crypto.sha256(base).prefix(8))
        return [UInt8(OTA_OBJECT_ENCODED_IMAGE.rawValue), UInt8(OTA_ENCODING_LZMA2.rawValue)] + little(from)
            + little(UInt32(base.count)) + prefix
    }

    /// Sends BEGIN of an encoded image and returns the status.
    func encodedStatus(from: UInt32 = .max, base: [UInt8]) -> ota_status? {
        request(OTA_BEGIN, Self.encodedArguments(from: from, base: base))
    }

    /// Sends BEGIN of an encoded image and returns the position, or nil if the status is not OK.
    func beginEncoded(from: UInt32 = .max, base: [UInt8] = []) -> Position? {
        let answer = request(UInt8(OTA_BEGIN.rawValue), Self.encodedArguments(from: from, base: base))
        return answer.first == 0 ? Position(answer.dropFirst()) : nil
    }

    /// Sends a stream from `position.next` on, in values of at most `size` bytes of the stream. At most one chunk begins in each value.
    /// Returns the sequence after the last value.
    @discardableResult
    func send(stream: [UInt8], at position: Position, size: () -> Int) -> UInt16 {
        var sequence = position.next
        var sent = 0
        let starts = Self.chunkStarts(stream)
        while sent < stream.count {
            var end = min(sent + max(1, size()), stream.count)
            let begun = starts.filter { sent..<end ~= $0 }
            if begun.count > 1 { end = begun[1] }
            write(data: little(sequence) + stream[sent..<end])
            sequence &+= 1
            sent = end
        }
        return sequence
    }

    /// The offsets of the chunks in a correct LZMA2 stream.
    static func chunkStarts(_ stream: [UInt8]) -> [Int] {
        var starts: [Int] = []
        var at = 0
        while at + 5 < stream.count {
            starts.append(at)
            let control = stream[at]
            func number(_ place: Int) -> Int { Int(stream[at + place]) << 8 + Int(stream[at + place + 1]) + 1 }
            at += control < 0x80 ? 3 + number(1) : 5 + (control >= 0xC0 ? 1 : 0) + number(3)
        }
        if at < stream.count { starts.append(at) }
        return starts
    }
}
