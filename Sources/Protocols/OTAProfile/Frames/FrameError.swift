import OTAFirmware

/// Reports that the bytes of a received value violate the profile.
package struct FrameError: Error, Equatable {
    /// The description of the error for the user, without a full stop.
    package var context: String
}

extension ByteReader {
    /// Parses a frame, which is one complete value that the device sent.
    ///
    /// - Parameters:
    ///   - name: the name of the frame in the error message.
    ///   - bytes: the bytes of the frame.
    ///   - body: reads the fields of the frame.
    /// - Throws: ``FrameError`` if the frame has too few bytes or too many bytes, or if `body` throws a `FrameError`.
    static func parse<Frame>(
        _ name: String, _ bytes: [UInt8], _ body: (inout ByteReader) throws -> Frame
    ) throws(FrameError) -> Frame {
        var reader = ByteReader(bytes)
        do {
            let frame = try body(&reader)
            guard reader.remaining == 0 else { throw FrameError(context: "\(reader.remaining) bytes too many") }
            return frame
        } catch let error as FrameError {
            throw FrameError(context: "\(name): \(error.context) (\(Hex.encode(bytes)))")
        } catch {
            throw FrameError(context: "\(name) is too short (\(Hex.encode(bytes)))")
        }
    }
}
