extension String {
    /// Safe on a terminal: control characters, which a file's name or a device may bring along, are written out. Line
    /// feeds stay.
    var printable: String { written { $0.isControl && $0 != "\n" } }

    /// The same on one line: who names a file cannot add a line to what is said of it.
    var printableLine: String { written(\.isControl) }

    private func written(_ isUnsafe: (Unicode.Scalar) -> Bool) -> String {
        guard unicodeScalars.contains(where: isUnsafe) else { return self }
        var text = ""
        for scalar in unicodeScalars {
            text += isUnsafe(scalar) ? scalar.escaped(asASCII: true) : String(scalar)
        }
        return text
    }
}

extension Unicode.Scalar {
    /// Speaks to a terminal, or changes the order in which it shows the rest.
    var isControl: Bool { [.control, .format].contains(properties.generalCategory) }
}
