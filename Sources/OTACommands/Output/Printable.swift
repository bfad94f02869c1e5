extension String {
    /// Safe on a terminal: control characters, which a file's name or a device may bring along, are written out. Line
    /// feeds stay.
    var printable: String {
        guard unicodeScalars.contains(where: Self.isUnsafe) else { return self }
        var text = ""
        for scalar in unicodeScalars {
            text += Self.isUnsafe(scalar) ? scalar.escaped(asASCII: true) : String(scalar)
        }
        return text
    }

    private static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
        guard scalar != "\n" else { return false }
        return scalar.properties.generalCategory == .control || scalar.properties.generalCategory == .format
    }
}
