/// Puts frames together that come in several values, cut anywhere: the length that the header tells says where one ends.
///
/// Nothing marks a beginning, so after a value that got lost all that follows is misread: who sees that begins anew, with a
/// new connection.
package struct SMPFrameAssembler {
    private var collected: [UInt8] = []

    package init() {}

    /// Part of a frame is here.
    package var isInMidFrame: Bool { !collected.isEmpty }

    /// - Returns: the frames that are whole with this value.
    package mutating func take(_ value: [UInt8]) throws(SMPFrameError) -> [SMPFrame] {
        collected += value
        var frames: [SMPFrame] = []
        while collected.count >= SMPFrame.headerLength {
            let length = SMPFrame.length(announcedBy: collected)
            guard collected.count >= length else { break }
            let bytes = Array(collected.prefix(length))
            collected.removeFirst(length)
            frames.append(try SMPFrame(parsing: bytes))
        }
        return frames
    }
}
