/// Returns text of another machine for the terminal: control characters, line breaks and invisible characters are escaped, so that the text
/// cannot control the terminal.
public func shown(_ text: String) -> String {
    text.unicodeScalars.map { scalar in
        let isUnsafe =
            [.control, .format, .lineSeparator, .paragraphSeparator].contains(scalar.properties.generalCategory)
            || scalar.properties.isDefaultIgnorableCodePoint
        return isUnsafe ? scalar.escaped(asASCII: true) : String(scalar)
    }.joined()
}
