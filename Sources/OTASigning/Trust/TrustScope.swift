internal import Glibc
public import OTAFirmware
public import SystemPackage

/// Limits what a trusted key may sign. A key without a scope file has no limit.
///
/// The file has the name of the key's file and `.scope`, and lies beside it (docs/command-line.md, "Limit a trusted key"):
///
///     # anything after a # at the beginning of a line
///     format = bundle
///     product = acme-thermostat, acme-sensor
///
/// Whatever is not understood is refused: a limit that is misread must not become no limit.
public struct TrustScope: Sendable, Hashable {
    /// What carries the signature.
    public enum Format: String, Sendable, CaseIterable {
        case bundle
        /// An image with a signature of its own, without a bundle.
        case mcuboot
    }

    static let suffix = ".scope"

    /// Where the scope was read from.
    public let file: FilePath
    /// Nil: any product.
    public let products: Set<ProductName>?
    /// Nil: both.
    public let formats: Set<Format>?

    /// Reads the text of a scope file.
    ///
    /// - Throws: `bad-trust-scope`, with file and line.
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

    /// Whether the key may sign this bundle.
    public func covers(_ manifest: Manifest) -> Bool {
        formats?.contains(.bundle) ?? true && products?.contains(manifest.product) ?? true
    }

    /// Whether the key may sign MCUboot images. An image names no product, so a key for some products may not.
    public var coversImages: Bool { formats?.contains(.mcuboot) ?? true && products == nil }

    // MARK: The file

    private enum Word: String, CaseIterable { case product, format }

    /// One line; nil if it is empty or a comment.
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

    /// Without spaces at its ends. No value has a space in it.
    private static func trimmed(_ text: Substring) -> String { text.split(separator: " ").joined(separator: " ") }

    /// - Parameter rest: the line from the wrong byte on.
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

    /// The scope file of a key's file; nil if there is no such file. A dangling link counts as a file that cannot be read.
    static func path(beside key: FilePath) -> FilePath? {
        let path = FilePath(key.string + suffix)
        var status = stat()
        return lstat(path.string, &status) == 0 || ![ENOENT, ENOTDIR].contains(errno) ? path : nil
    }
}

extension TrustScope: CustomStringConvertible {
    /// What the key may sign, for people.
    public var description: String {
        switch (formats, products) {
        case (_, let products?): "bundles of \(products.map(\.text).sorted().joined(separator: ", "))"
        case ([.bundle]?, nil): "bundles"
        case ([.mcuboot]?, nil): "MCUboot images"
        case (_, nil): "bundles and MCUboot images"
        }
    }
}
