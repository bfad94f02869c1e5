package import OTAClient

/// The addresses of several devices, from the command line and from a file.
package struct DeviceList {
    private let devices: [String]
    private let file: String?

    /// - Parameter file: the path of a file with one address on each line; nil: no file.
    package init(_ devices: [String], file: String?) {
        self.devices = devices
        self.file = file
    }

    /// Parses the addresses of all devices.
    ///
    /// - Parameters:
    ///   - limit: the maximum number of devices.
    ///   - parse: parses one address.
    /// - Throws: `usage` for an invalid or repeated address; the errors of `FileReader`.
    package func addresses(
        atMost limit: Int, _ parse: (String) throws -> DeviceAddress = { try DeviceAddress($0) }
    ) throws -> [DeviceAddress] {
        let all = try devices.map { GivenDevice($0) } + (file.map { try Self.list(in: $0) } ?? [])
        guard all.count <= limit else {
            throw Failure.usage(
                "\(all.count) devices are too many for one command: at most \(limit)",
                hint: "divide the list into several files, and run the command for one after the other")
        }
        if let file, all.isEmpty {
            throw Failure.usage(
                "\(file) has no device address", hint: "write one address on each line, such as udp:192.168.1.20")
        }
        var known: Set<String> = []
        return try all.map { given in
            do {
                let address = try parse(given.text)
                guard known.insert(address.canonical).inserted else {
                    throw Failure.usage("the device \(given.text) is given twice", hint: "give each device once")
                }
                return address
            } catch {
                guard let place = given.place else { throw error }
                var failure = Failure(error, in: Invocation(command: Push.name))
                failure.message = "\(place): \(failure.message)"
                throw failure
            }
        }
    }

    /// A device that the user gave.
    package struct GivenDevice {
        package let text: String
        /// The file and the line; nil: the command line.
        package let place: String?

        fileprivate init(_ text: String, in place: String? = nil) { (self.text, self.place) = (text, place) }
    }

    /// Returns the first word of each line of a file. Empty lines, and lines that start with `#`, are omitted.
    ///
    /// - Throws: `usage` for standard input; the errors of `FileReader`.
    package static func list(in file: String) throws -> [GivenDevice] {
        try StandardFile.refuse(
            file, "the list of devices cannot be standard input",
            hint: "save the list first, such as cat > devices.txt, and give this file")
        var text = String(decoding: try FileReader.contents(of: file), as: UTF8.self)[...]
        // Some editors begin a file with a byte order mark.
        if text.hasPrefix("\u{FEFF}") { text.removeFirst() }
        let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        return lines.enumerated().compactMap { index, line in
            let address = line.drop { $0.isWhitespace }.prefix { !$0.isWhitespace }
            guard !address.isEmpty, !address.hasPrefix("#") else { return nil }
            return GivenDevice(String(address), in: "\(file), line \(index + 1)")
        }
    }
}
