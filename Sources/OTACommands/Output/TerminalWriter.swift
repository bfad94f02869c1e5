import Glibc
import SystemPackage

/// What can be written for a person: lines, and the control sequences that this program uses.
package enum TerminalPiece: Sendable, Equatable {
    /// A line and its line feed.
    case line(TerminalLine)
    /// Text without a line feed.
    case part(TerminalLine)
    /// To the first column, and erase the line.
    case startOfLine
    /// To the first column of the line so many lines above, and erase all from there.
    case eraseLines(Int)

    package func rendered(hasColours: Bool) -> String {
        switch self {
        case .line(let line): line.rendered(hasColours: hasColours) + "\n"
        case .part(let line): line.rendered(hasColours: hasColours)
        case .startOfLine: "\r\u{1B}[K"
        case .eraseLines(let count): "\r" + (count > 0 ? "\u{1B}[\(count)A" : "") + "\u{1B}[J"
        }
    }
}

/// Writes to a descriptor that a person or a script reads. Nothing else in this target does, and no plain text can be written: it is a
/// `TerminalLine` or a `JSONLine` first, both of which escape it.
struct TerminalWriter: Sendable {
    let descriptor: Int32
    var hasColours = false

    func write(_ pieces: [TerminalPiece]) throws(Errno) {
        try write(pieces.map { $0.rendered(hasColours: hasColours) }.joined())
    }

    func write(_ piece: TerminalPiece) throws(Errno) { try write([piece]) }

    func write(_ object: JSONLine) throws(Errno) { try write(object.text + "\n") }

    /// Without a buffer: what was written before a crash or a kill has been written.
    private func write(_ text: String) throws(Errno) {
        var text = text
        let failure: Errno? = text.withUTF8 { bytes in
            var rest = UnsafeRawBufferPointer(bytes)
            while !rest.isEmpty {
                let count = Glibc.write(descriptor, rest.baseAddress, rest.count)
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else { return Errno(rawValue: errno) }
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
            return nil
        }
        if let failure { throw failure }
    }
}
