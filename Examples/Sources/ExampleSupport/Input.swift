import Dispatch
import Glibc

/// Splits typed bytes into lines. A value of this type needs no input, so that unit tests can check it.
public struct LineSplitter: Sendable {
    private let limit: Int
    private var line: [UInt8] = []

    /// - Parameter limit: the number of bytes of the longest line. A longer line is cut after one more byte, so that its receiver can refuse
    ///   it, and so that a line without an end does not fill the memory.
    public init(limit: Int) { self.limit = limit }

    /// Returns the lines that these bytes complete, without their line feeds.
    public mutating func add(_ bytes: [UInt8]) -> [String] {
        bytes.compactMap { byte in
            guard byte == UInt8(ascii: "\n") else {
                if line.count <= limit { line.append(byte) }
                return nil
            }
            defer { line = [] }
            return String(decoding: line, as: UTF8.self)
        }
    }

    /// Returns the last line if it has no line feed.
    public mutating func end() -> String? {
        line.isEmpty ? nil : add([UInt8(ascii: "\n")]).first
    }
}

/// Joins typed bytes to characters. A read can end within a character. Escape sequences, such as those of the arrow keys, are removed.
public struct CharacterJoiner: Sendable {
    private var rest: [UInt8] = []
    /// Whether the next characters are the rest of an escape sequence.
    private var isEscape = false

    public init() {}

    /// Returns the characters that these bytes complete. Malformed bytes become U+FFFD.
    public mutating func add(_ bytes: [UInt8]) -> String {
        rest += bytes
        // The last sequence is incomplete if its first byte announces more bytes than are present.
        let start = rest.suffix(4).lastIndex { $0 & 0xC0 != 0x80 } ?? rest.endIndex
        let length = start == rest.endIndex ? 0 : max(1, (~rest[start]).leadingZeroBitCount)
        let end = (2...4).contains(length) && rest.endIndex - start < length ? start : rest.endIndex
        defer { rest.removeFirst(end) }
        return String(decoding: rest[..<end], as: UTF8.self).filter { !isOfEscape($0) }
    }

    /// The last character of a sequence is a letter or "~". "[" and "O" are its second character.
    private mutating func isOfEscape(_ character: Character) -> Bool {
        let wasEscape = isEscape
        isEscape = wasEscape ? !("@"..."~" ~= character) || character == "[" || character == "O" : character == "\u{1B}"
        return wasEscape || isEscape
    }
}

/// Reads standard input until its end. Each element has the bytes that were available at one time. A thread waits for the bytes, because a
/// dispatch source does not report the end of a pipe. A program in the background of a terminal continues without input, and reads again
/// when it is in the foreground.
public func standardInput() -> AsyncStream<[UInt8]> {
    let (stream, feed) = AsyncStream.makeStream(of: [UInt8].self)
    DispatchQueue.global().async {
        // Otherwise a read in the background stops the process with all its links. Now it fails with EIO.
        signal(SIGTTIN, SIG_IGN)
        var bytes = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(STDIN_FILENO, &bytes, bytes.count)
            if count > 0 {
                feed.yield(Array(bytes.prefix(count)))
            } else if count < 0, isInBackground {
                sleep(1)
            } else {
                return feed.finish()
            }
        }
    }
    return stream
}

/// Whether another program has the terminal of standard input.
var isInBackground: Bool {
    let foreground = tcgetpgrp(STDIN_FILENO)
    return foreground > 0 && foreground != getpgrp()
}
