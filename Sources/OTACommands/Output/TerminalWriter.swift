import Glibc
import SystemPackage

/// An element of the output for people: text, or a control sequence that this program uses.
package enum TerminalPiece: Sendable, Equatable {
    /// Text with a line feed.
    case line(TerminalLine)
    /// Text without a line feed.
    case part(TerminalLine)
    /// Moves the cursor to the first column and erases the line.
    case startOfLine
    /// Moves the cursor up by this number of lines, to the first column, and erases everything from there.
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

/// Writes the output for people and scripts. Only this type writes to stdout, stderr or the terminal in this target.
///
/// It accepts no plain text, only `TerminalLine` and `JSONLine`, which escape unprintable scalars.
struct TerminalWriter: Sendable {
    let descriptor: Int32
    var hasColours = false

    func write(_ pieces: [TerminalPiece]) throws(Errno) {
        try write(pieces.map { $0.rendered(hasColours: hasColours) }.joined())
    }

    func write(_ piece: TerminalPiece) throws(Errno) { try write([piece]) }

    func write(_ object: JSONLine) throws(Errno) { try write(object.text + "\n") }

    /// Writes without a buffer, so that no output is lost after a crash or a kill.
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
