@0x9a7ac8e8cc3f0f31;
# Camera frames and encoded video: one FrameData per frame, one EncodeIndex per encoded frame.
# Times are nanoseconds of CLOCK_MONOTONIC-like device time (CLOCK_BOOTTIME on device).

struct FrameData @0xea0245f695ae0a33 {
  frameId @0 :UInt32;
  encodeId @1 :UInt32;
  timestampEof @2 :UInt64;
  frameLengthDEPRECATED @3 :Int32;
  integLines @4 :Int32;
  globalGainDEPRECATED @5 :Int32;
  image @6 :Data;
  frameTypeDEPRECATED @7 :FrameTypeDEPRECATED;
  timestampSof @8 :UInt64;
  androidCaptureResultDEPRECATED @9 :AnyPointer;
  transform @10 :List(Float32);
  lensPosDEPRECATED @11 :Int32;
  lensSagDEPRECATED @12 :Float32;
  lensErrDEPRECATED @13 :Float32;
  lensTruePosDEPRECATED @14 :Float32;
  gain @15 :Float32;
  focusValDEPRECATED @16 :List(Int16);
  focusConfDEPRECATED @17 :List(UInt8);
  sharpnessScoreDEPRECATED @18 :List(UInt16);
  recoverStateDEPRECATED @19 :Int32;
  highConversionGain @20 :Bool;
  measuredGreyFraction @21 :Float32;
  targetGreyFraction @22 :Float32;
  processingTime @23 :Float32;
  temperaturesC @24 :List(Float32);
  frameIdSensor @25 :UInt32;
  sensor @26 :ImageSensor;
  exposureValPercent @27 :Float32;
  requestId @28 :UInt32;

  enum FrameTypeDEPRECATED {
    unknown @0;
    neo @1;
    chffrAndroid @2;
    front @3;
  }

  enum ImageSensor {
    unknown @0;
    ar0231 @1;
    ox03c10 @2;
    os04c10 @3;
  }
}

struct Thumbnail @0xb65fce64120af7d3 {
  frameId @0 :UInt32;
  timestampEof @1 :UInt64;
  thumbnail @2 :Data;
  encoding @3 :Encoding;

  enum Encoding {
    unknown @0;
    jpeg @1;
    keyframe @2;
  }
}

struct EncodeIndex @0x89d394e3541735fc {
  frameId @0 :UInt32;
  type @1 :Type;
  # Counts encoded frames from the start of the route.
  encodeId @2 :UInt32;
  segmentNum @3 :Int32;
  # Position in the segment's video file, in presentation and in encode order.
  segmentId @4 :UInt32;
  segmentIdEncode @5 :UInt32;
  timestampSof @6 :UInt64;
  timestampEof @7 :UInt64;
  flags @8 :UInt32;
  len @9 :UInt32;

  enum Type {
    bigBoxLossless @0;
    fullHEVC @1;
    bigBoxHEVCDEPRECATED @2;
    chffrAndroidH264DEPRECATED @3;
    fullLosslessClipDEPRECATED @4;
    frontDEPRECATED @5;
    qcameraH264 @6;
    livestreamH264 @7;
  }
}

struct EncodeData @0xcf9aeab355dd85f0 {
  idx @0 :EncodeIndex;
  data @1 :Data;
  header @2 :Data;
  unixTimestampNanos @3 :UInt64;
  width @4 :UInt32;
  height @5 :UInt32;
}
