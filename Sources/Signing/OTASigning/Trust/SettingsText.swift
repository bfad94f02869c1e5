internal import Glibc
internal import OTAFirmware
internal import SystemPackage

/// The lines `WORD = VALUE, VALUE` of a text file beside trusted keys: a scope file or a policy.
///
/// Empty lines and lines that start with `#` are ignored. Unknown words, repeated words and bytes that are not printable ASCII are errors.
/// If they were ignored, a spelling mistake would remove a limit.
struct SettingsText<Word: RawRepresentable<String> & CaseIterable & Hashable & Sendable> {
    let file: FilePath
    /// The error code of a malformed file.
    let code: KeyError.Code
    /// The values after each word, with the number of the line.
    private var values: [Word: (line: Int, list: [String])] = [:]

    /// Parses the text.
    ///
    /// - Throws: an error with `code`. The message contains the path of the file and the line's number.
    init(parsing text: [UInt8], of file: FilePath, code: KeyError.Code) throws(KeyError) {
        (self.file, self.code) = (file, code)
        for (index, line) in text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            let place = "\(file):\(index + 1)"
            guard let (word, list) = try entry(line, at: place) else { continue }
            guard values.updateValue((index + 1, list), forKey: word) == nil else {
                throw refusal("\(place): the line '\(word.rawValue)' appears twice")
            }
        }
    }

    /// Returns the different values of a line. Returns nil if the file has no line with this word.
    ///
    /// - Parameters:
    ///   - rule: the description of a valid value.
    ///   - read: parses a value; nil: the value is not valid.
    func set<Value: Hashable>(
        of word: Word, _ rule: String, _ read: (String) -> Value?
    ) throws(KeyError) -> Set<Value>? {
        guard let (line, list) = values[word] else { return nil }
        var set: Set<Value> = []
        for text in list {
            guard let value = read(text) else {
                throw refusal("\(file):\(line): '\(text)' is not a \(word.rawValue): expected \(rule)")
            }
            guard set.insert(value).inserted else { throw refusal("\(file):\(line): '\(text)' appears twice") }
        }
        return set
    }

    /// Returns the only value of a line. Returns nil if the file has no line with this word.
    func value<Value: Hashable>(
        of word: Word, _ rule: String, _ read: (String) -> Value?
    ) throws(KeyError) -> Value? {
        guard let set = try set(of: word, rule, read) else { return nil }
        guard set.count == 1 else {
            throw refusal(
                "\(file):\(values[word]?.line ?? 0): '\(word.rawValue)' has \(set.count) values: expected \(rule)")
        }
        return set.first
    }

    func refusal(_ context: String, hint: String? = nil) -> KeyError { KeyError(code, context, hint: hint) }

    /// Parses one line and returns the word before the `=` and the values after the `=`. Returns nil for an empty line or a comment.
    private func entry(_ line: ArraySlice<UInt8>, at place: String) throws(KeyError) -> (Word, [String])? {
        guard let first = line.first(where: { $0 != UInt8(ascii: " ") }), first != UInt8(ascii: "#") else { return nil }
        if let index = line.firstIndex(where: { !(0x20...0x7E ~= $0) }) {
            let column = line.distance(from: line.startIndex, to: index) + 1
            throw refusal(
                "\(place): byte 0x\(Hex.encode([line[index]]).uppercased()) in column \(column) is not printable ASCII",
                hint: advice(for: line[index...], column))
        }
        let halves = String(decoding: line, as: UTF8.self).split(
            separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = Self.trimmed(halves[0])
        guard halves.count == 2, let word = Word(rawValue: name) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: " or ")
            throw refusal("\(place): '\(name)' is not a known word: expected \(words), '=' and values")
        }
        return (word, halves[1].split(separator: ",", omittingEmptySubsequences: false).map(Self.trimmed))
    }

    /// Removes the spaces at both ends, and replaces several spaces inside the text with one space. A value with a space inside remains
    /// invalid.
    private static func trimmed(_ text: Substring) -> String { text.split(separator: " ").joined(separator: " ") }

    /// Returns the hint for a byte that is not printable ASCII.
    ///
    /// - Parameters:
    ///   - rest: the line from this byte to the end.
    ///   - column: the position of this byte in the line, starting at 1.
    private func advice(for rest: ArraySlice<UInt8>, _ column: Int) -> String {
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
}

extension FilePath {
    /// The path of a scope file or a policy; nil only if the file does not exist.
    ///
    /// It is not nil if the file is a symbolic link to a missing file, or if its existence cannot be checked. The caller then fails to read
    /// the file. If the result were nil, the caller would ignore a limit.
    var unlessAbsent: FilePath? {
        var status = Glibc.stat()
        return lstat(string, &status) == 0 || ![ENOENT, ENOTDIR].contains(errno) ? self : nil
    }
}
