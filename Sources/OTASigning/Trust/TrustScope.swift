internal import Glibc
public import OTAFirmware
public import SystemPackage

/// Limits what a trusted key may sign. A key without a scope file has no limit.
///
/// The file is in the folder of the key file. Its name is that of the key file with `.scope` appended (docs/command-line.md, "Limit a
/// trusted key"):
///
///     # a comment: a line that starts with #
///     format = bundle
///     product = acme-thermostat, acme-sensor
///
/// Unknown lines and values are errors. Otherwise a spelling mistake could remove a limit.
public struct TrustScope: Sendable, Hashable {
    /// The file format that contains the signature.
    public enum Format: String, Sendable, CaseIterable {
        case bundle
        /// A signed MCUboot image without a bundle.
        case mcuboot
    }

    static let suffix = ".scope"

    /// The path of the scope file.
    public let file: FilePath
    /// The products that the key may sign for. Nil: any product.
    public let products: Set<ProductName>?
    /// The formats that the key may sign. Nil: both formats.
    public let formats: Set<Format>?

    /// Reads the text of a scope file.
    ///
    /// - Throws: `bad-trust-scope`, with the file and, for an error in one line, the line's number.
    public init(parsing text: [UInt8], of file: FilePath) throws(KeyError) {
        var values: [Word: (line: Int, list: [String])] = [:]
        for (index, line) in text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            let place = "\(file):\(index + 1)"
            guard let (word, list) = try Self.entry(line, at: place, of: file) else { continue }
            guard values.updateValue((index + 1, list), forKey: word) == nil else {
                throw Self.refusal("\(place): a second line '\(word.rawValue)'")
            }
        }
        func set<Value: Hashable>(
            of word: Word, _ rule: String, _ read: (String) -> Value?
        ) throws(KeyError) -> Set<Value>? {
            guard let (line, list) = values[word] else { return nil }
            var set: Set<Value> = []
            for text in list {
                guard let value = read(text) else {
                    throw Self.refusal("\(file):\(line): '\(text)' is not a \(word.rawValue): expected \(rule)")
                }
                guard set.insert(value).inserted else {
                    throw Self.refusal("\(file):\(line): '\(text)' is there twice")
                }
            }
            return set
        }
        products = try set(of: .product, ProductName.rule) { ProductName($0) }
        formats = try set(of: .format, "bundle or mcuboot") { Format(rawValue: $0) }
        self.file = file
        guard products != nil || formats != nil else {
            throw Self.refusal("\(file): no line 'product' or 'format', so it limits nothing")
        }
        guard products == nil || formats?.contains(.mcuboot) != true else {
            throw Self.refusal(
                "\(file): 'product' excludes the format mcuboot, because an MCUboot image names no product",
                hint: "remove the line 'format' or the line 'product'")
        }
    }

    /// Returns whether the key may sign this bundle.
    public func covers(_ manifest: Manifest) -> Bool {
        formats?.contains(.bundle) ?? true && products?.contains(manifest.product) ?? true
    }

    /// Whether the key may sign MCUboot images. An image names no product, so a key with a product limit may not sign any.
    public var coversImages: Bool { formats?.contains(.mcuboot) ?? true && products == nil }

    // MARK: File format

    private enum Word: String, CaseIterable { case product, format }

    /// Parses one line. Returns nil if the line is empty or a comment.
    private static func entry(
        _ line: ArraySlice<UInt8>, at place: String, of file: FilePath
    ) throws(KeyError) -> (Word, [String])? {
        guard let first = line.first(where: { $0 != UInt8(ascii: " ") }), first != UInt8(ascii: "#") else { return nil }
        if let index = line.firstIndex(where: { !(0x20...0x7E ~= $0) }) {
            let column = line.distance(from: line.startIndex, to: index) + 1
            throw refusal(
                "\(place): byte 0x\(Hex.encode([line[index]]).uppercased()) in column \(column) is not printable ASCII",
                hint: advice(for: line[index...], column, in: file))
        }
        let halves = String(decoding: line, as: UTF8.self).split(
            separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = trimmed(halves[0])
        guard halves.count == 2, let word = Word(rawValue: name) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: " or ")
            throw refusal("\(place): '\(name)' is not known: expected \(words), '=' and values")
        }
        return (word, halves[1].split(separator: ",", omittingEmptySubsequences: false).map(trimmed))
    }

    /// Removes spaces at both ends and merges spaces inside. No valid value contains a space.
    private static func trimmed(_ text: Substring) -> String { text.split(separator: " ").joined(separator: " ") }

    /// Returns the hint for a byte that is not printable ASCII.
    ///
    /// - Parameter rest: the rest of the line, starting with that byte.
    private static func advice(for rest: ArraySlice<UInt8>, _ column: Int, in file: FilePath) -> String {
        let file = file.string.shellQuoted
        return switch rest.first {
        case UInt8(ascii: "\r") where rest.count == 1:
            "convert the line ends to line feeds: sed -i 's/\\r$//' \(file)"
        case 0xEF where column == 1 && rest.starts(with: [0xEF, 0xBB, 0xBF]):
            "remove the byte order mark: sed -i '1s/^\\xEF\\xBB\\xBF//' \(file)"
        case UInt8(ascii: "\t"): "replace the tab with a space"
        default: "remove that byte"
        }
    }

    private static func refusal(_ context: String, hint: String? = nil) -> KeyError {
        KeyError(.badTrustScope, context, hint: hint)
    }

    /// Returns the path of a key file's scope file; nil if that file does not exist. For a dangling link it returns the path, so that the
    /// later read fails.
    static func path(beside key: FilePath) -> FilePath? {
        let path = FilePath(key.string + suffix)
        var status = stat()
        return lstat(path.string, &status) == 0 || ![ENOENT, ENOTDIR].contains(errno) ? path : nil
    }
}

extension TrustScope: CustomStringConvertible {
    /// Describes to the user what the key may sign.
    public var description: String {
        switch (formats, products) {
        case (_, let products?): "bundles of \(products.map(\.text).sorted().joined(separator: ", "))"
        case ([.bundle]?, nil): "bundles"
        case ([.mcuboot]?, nil): "MCUboot images"
        case (_, nil): "bundles and MCUboot images"
        }
    }
}
