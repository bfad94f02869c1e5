/// Returns text of another machine for the terminal, on one line: control characters, line breaks and invisible characters are escaped, so
/// that the text cannot control the terminal, and cannot look like another text. The joiners within an emoji remain.
///
/// Names of devices, errors with such a name, and messages are text of another machine.
public func shown(_ text: String) -> String {
    let scalars = Array(text.unicodeScalars)
    return scalars.indices.map { index in
        let scalar = scalars[index]
        let isSafe = !isUnsafe(scalar) || joinsEmoji(scalars, at: index)
        return isSafe ? String(scalar) : scalar.escaped(asASCII: true)
    }.joined()
}

private func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
    [.control, .format, .lineSeparator, .paragraphSeparator].contains(scalar.properties.generalCategory)
        || scalar.properties.isDefaultIgnorableCodePoint
}

/// Whether a scalar is a part of an emoji (Unicode Technical Standard 51): a zero width joiner between two emoji, or the variation selector
/// after a character that is no emoji without it. Elsewhere, both are invisible.
private func joinsEmoji(_ scalars: [Unicode.Scalar], at index: Int) -> Bool {
    guard index > 0 else { return false }
    let before = scalars[index - 1]
    let isText = before.properties.isEmoji && !before.properties.isEmojiPresentation && !before.isASCII
    switch scalars[index] {
    case "\u{FE0F}": return isText
    case "\u{200D}":
        let isAfterEmoji = before.properties.isEmojiPresentation || before == "\u{FE0F}" || isText
        return isAfterEmoji && scalars[(index + 1)...].first.map { $0.properties.isEmoji && !$0.isASCII } ?? false
    default: return false
    }
}
